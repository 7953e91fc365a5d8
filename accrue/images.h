#pragma once

// Images: folders, built-in sets, augmentation, masks.

#include "images/augmentation.h"
#include "images/contrastive.h"
#include "images/digits.h"
#include "images/find_dataset.h"
#include "images/image_tensor.h"
#include "images/segmentation.h"
#include "images/shapes.h"
