import { contextParallelTable } from './context-parallel-table.ts';

// The slow test has each case by all methods.
contextParallelTable({ hasAll: false });
