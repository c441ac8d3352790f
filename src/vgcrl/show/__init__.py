"""What a person looks at: figures, tables, film strips, reports."""
