import { testUsesOutsideForward } from './uses-outside-forward-table.ts';

// The slow test has all programs with every strategy.
testUsesOutsideForward(2);
