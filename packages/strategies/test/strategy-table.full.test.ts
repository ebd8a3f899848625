import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable } from './strategy-table-worlds.ts';

// The slow test has every variant train all tasks.
testStrategyTable([3], stepCounts.few, 1);
