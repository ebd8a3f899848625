import { testMixedPrecision } from './mixed-precision-worlds.ts';
import { stepCounts } from './ranks/step-counts.ts';

testMixedPrecision([2], stepCounts.few);
