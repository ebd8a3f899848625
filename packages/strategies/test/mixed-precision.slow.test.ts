import { variants } from './mixed-precision-variants.ts';
import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable } from './strategy-table-worlds.ts';

testStrategyTable(variants, [1, 2, 3], { steps: stepCounts.many });
