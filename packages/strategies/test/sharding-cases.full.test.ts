import { testShardingCases } from './sharding-cases-table.ts';

testShardingCases([4]);
