import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable } from './strategy-table-worlds.ts';

testStrategyTable([3], stepCounts.few);
