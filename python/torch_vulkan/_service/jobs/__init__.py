"""From a job to its artefacts: scheduled, kept, told to webhooks, removed when old."""
