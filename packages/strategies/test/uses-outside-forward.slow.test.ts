import { testUsesOutsideForward } from './uses-outside-forward-table.ts';

testUsesOutsideForward();
