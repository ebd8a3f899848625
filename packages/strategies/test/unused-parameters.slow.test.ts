import { unusedParametersTable } from './unused-parameters-table.ts';

unusedParametersTable(2);
unusedParametersTable(3);
unusedParametersTable(4);
