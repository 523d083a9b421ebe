"""Program + Plan -> Schedule: one file per transformation, every one proven legal."""
