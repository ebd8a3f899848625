import { testMixedPrecision } from './mixed-precision-worlds.ts';
import { stepCounts } from './ranks/step-counts.ts';

testMixedPrecision([1, 2, 3], stepCounts.many);
