import { programs, randomPrograms, severalLossesTable } from './several-losses-table.ts';

const [first = '', second = ''] = Object.keys(randomPrograms);

severalLossesTable([2, 4], [...Object.keys(programs), first, second]);
