import { testMixedPrecision } from './mixed-precision-worlds.ts';

testMixedPrecision([2]);
