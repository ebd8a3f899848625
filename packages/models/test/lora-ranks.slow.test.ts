import { testAdaptersOnRanks } from './lora-ranks-table.ts';

testAdaptersOnRanks({ hasAll: true });
