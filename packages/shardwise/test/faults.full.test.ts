import { ranksThatFail } from './faults.ts';

// What else can go wrong is in the contract of process groups, which every transport passes.
ranksThatFail('threads', ['killed-early', 'leaves']);
ranksThatFail('shm', ['killed-early', 'killed-inside', 'stopped', 'leaves']);
ranksThatFail('hosted', ['killed-early', 'killed-inside', 'stopped', 'one-call-fewer']);
