"""What plans leave to those after them in the same repository: which tests are flaky there."""
