import { ranksThatFail } from './faults.ts';

// The contract of process groups covers all other faults, and every transport passes it.
ranksThatFail('threads', ['killed-early', 'leaves']);
ranksThatFail('shm', ['killed-early', 'killed-inside', 'stopped', 'leaves']);
ranksThatFail('hosted', ['killed-early', 'killed-inside', 'stopped', 'one-call-fewer']);
