import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable, variants } from './strategy-table-worlds.ts';

testStrategyTable(variants, [1, 2, 3, 4], { steps: stepCounts.many });
