import { testStrategyTable } from './strategy-table-worlds.ts';

testStrategyTable([1, 2, 4]);
