import { testLoraLoading } from './lora-loading-table.ts';

// The slow test loads every kind of adapter under every strategy.
testLoraLoading({ hasAll: false });
