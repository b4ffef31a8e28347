"""What several tests share: worlds and jobs, models to compare with, limits of time, and what breaks things."""
