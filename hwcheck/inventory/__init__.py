"""An Ansible inventory becomes hosts with settings and expectations."""
