"""What every folder of the decisions stands on: errors, the policy version, and cutting into batches."""
