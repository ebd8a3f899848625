import { testMixedPrecision } from './mixed-precision-worlds.ts';

testMixedPrecision([1, 3]);
