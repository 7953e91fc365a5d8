#pragma once

// Images: folders, built-in sets, augmentation, masks.
//
//     const Datasets digits = find_dataset("digits"), own = load_images("photos", {});
//     const Image image = resized(read_image("seven.png"), {28, 28});
//     const Tensor answer = predict(model, image_tensor(image, {.mean = {0.5}, .std = {0.5}}));

#include "images/augmentation.h"
#include "images/contrastive.h"
#include "images/digits.h"
#include "images/find_dataset.h"
#include "images/image_tensor.h"
#include "images/segmentation.h"
#include "images/shapes.h"
