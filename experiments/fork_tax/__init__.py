"""What a fork that changes nothing costs."""
