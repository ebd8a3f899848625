import { testLoraLoading } from './lora-loading-table.ts';

testLoraLoading({ hasAll: true });
