import { testShardingCases } from './sharding-cases-table.ts';

testShardingCases([2, 3, 4]);
