import { stepCounts } from './ranks/step-counts.ts';
import { testStrategyTable, variants } from './strategy-table-worlds.ts';

// The slow test has every variant train all tasks.
testStrategyTable(variants, [3], { steps: stepCounts.few, tasksOfVariant: 1 });
