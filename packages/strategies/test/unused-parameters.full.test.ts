import { unusedParametersTable } from './unused-parameters-table.ts';

unusedParametersTable(3);
unusedParametersTable(4);
