import { programs, randomPrograms, severalLossesTable } from './several-losses-table.ts';

severalLossesTable([2, 3, 4], Object.keys({ ...programs, ...randomPrograms }));
