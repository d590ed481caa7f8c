"""Published settings and published weights."""
