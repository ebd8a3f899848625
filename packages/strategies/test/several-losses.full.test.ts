import { programs, randomPrograms, severalLossesTable } from './several-losses-table.ts';

const [first = '', second = ''] = Object.keys(randomPrograms);

// The slow test has all programs with every strategy.
severalLossesTable([2, 4], [...Object.keys(programs), first, second], 1);
