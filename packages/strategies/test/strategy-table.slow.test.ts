import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable } from './strategy-table-worlds.ts';

testStrategyTable([1, 2, 3, 4], stepCounts.many);
