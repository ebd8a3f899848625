import { testStrategyTable } from './strategy-table-worlds.ts';

testStrategyTable([3]);
