import { allFaults, ranksThatFail } from './faults.ts';

// A single thread can't be stopped.
ranksThatFail(
  'threads',
  allFaults.filter((fault) => fault !== 'stopped'),
);
ranksThatFail('shm', allFaults);
ranksThatFail('tcp', allFaults);
ranksThatFail('hosted', allFaults);
