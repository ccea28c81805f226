# What check says about a PREEMPT_RT kernel, in both forms.
lathunt check -D 100ms >text
lathunt check -D 100ms --json >json
