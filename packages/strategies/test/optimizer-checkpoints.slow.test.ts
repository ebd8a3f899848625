import { testOptimizerCheckpoints } from './optimizer-checkpoints-table.ts';

testOptimizerCheckpoints();
