import { testShardingCases } from './sharding-cases-table.ts';

// The slow test has every strategy run all cases.
testShardingCases([4], 3);
