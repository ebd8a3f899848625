import { testSchedules } from './pipeline-table.ts';

testSchedules(() => [1, 2, 4, 7, 8]);
