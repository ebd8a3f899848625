import { testOptimizerCheckpoints } from './optimizer-checkpoints-table.ts';

// The slow test has every optimizer under all strategies.
testOptimizerCheckpoints(2);
