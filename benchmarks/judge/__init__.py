"""How often ways of judging a rollout send a good model back, and how soon they find a bad one."""
