import { onLines, testRedistributions } from './redistribution-table.ts';

testRedistributions(onLines);
