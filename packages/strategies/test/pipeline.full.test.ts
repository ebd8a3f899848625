import { testSchedules } from './pipeline-table.ts';

// The slow test has more cases.
testSchedules((ranks) => (ranks === 2 ? [1, 7] : ranks === 4 ? [8] : [2]));
