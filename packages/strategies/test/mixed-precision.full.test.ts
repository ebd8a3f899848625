import { testMixedPrecision } from './mixed-precision-worlds.ts';
import { stepCounts } from './ranks/step-counts.ts';

// The slow test has every variant train all tasks.
testMixedPrecision([2], stepCounts.few, 1);
