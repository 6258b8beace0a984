"""What people look at: terminal, run tree as a picture, report. Renderers read a StudyView, nothing else."""
