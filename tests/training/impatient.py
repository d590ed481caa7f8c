"""``python -m minitxl`` as a rank that waits for the others a minute at most, and not half an hour.

Gloo may lose the news that the connection to a killed rank has ended. The rank that lost it waits on.
"""

from datetime import timedelta

from minitxl.__main__ import main
from minitxl.training import distributed

if __name__ == "__main__":
    distributed.LONGEST_WAIT = timedelta(minutes=1)
    main()
