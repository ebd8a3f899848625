import { variants } from './mixed-precision-variants.ts';
import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable } from './strategy-table-worlds.ts';

// The slow test has every variant train all tasks.
testStrategyTable(variants, [2], { steps: stepCounts.few, tasksOfVariant: 1 });
