import { onSquare, testRedistributions } from './redistribution-table.ts';

testRedistributions(onSquare);
