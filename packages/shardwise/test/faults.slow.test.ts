import { allFaults, ranksThatFail } from './faults.ts';

// A thread can't be stopped alone.
ranksThatFail(
  'threads',
  allFaults.filter((fault) => fault !== 'stopped'),
);
ranksThatFail('shm', allFaults);
ranksThatFail('tcp', allFaults);
ranksThatFail('hosted', allFaults);
