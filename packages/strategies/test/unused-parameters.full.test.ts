import { unusedParametersTable } from './unused-parameters-table.ts';

// The slow test has every strategy run all programs in each world, of two ranks, too.
unusedParametersTable(3, 1);
unusedParametersTable(4, 1);
